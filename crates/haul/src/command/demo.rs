//! `haul demo`
use crate::exit::Exit;
use crate::flags::DemoFlags;
pub fn run(_: &DemoFlags) -> Exit {
    Exit::Success
}
