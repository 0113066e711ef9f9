//! `haul bench sweep`.

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::SweepFlags;

pub fn run(_: &SweepFlags, _: &Global) -> Exit {
    Exit::Usage
}
