//! `haul bench files`.

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::FilesFlags;

pub fn run(_: &FilesFlags, _: &Global) -> Exit {
    Exit::Usage
}
