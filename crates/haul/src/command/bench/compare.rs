//! `haul bench compare`.

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::CompareFlags;

pub fn run(_: &CompareFlags, _: &Global) -> Exit {
    Exit::Usage
}
