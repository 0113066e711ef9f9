//! The program from end to end, on local paths. Needs root, rsync and the mkfs programs.

mod attributes;
mod check;
mod deletes;
mod slash;
mod space;
#[expect(dead_code, reason = "some of it serves themes that have yet to come")]
mod support;
mod user;
