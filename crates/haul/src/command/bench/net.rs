//! `haul bench net`.

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::NetFlags;

pub fn run(_: &NetFlags, _: &Global) -> Exit {
    Exit::Usage
}
