//! `haul bench data`.

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::DataFlags;

pub fn run(_: &DataFlags, _: &Global) -> Exit {
    Exit::Usage
}
