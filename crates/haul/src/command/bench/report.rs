//! `haul bench report`.

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::ReportFlags;

pub fn run(_: &ReportFlags, _: &Global) -> Exit {
    Exit::Usage
}
