//! The program from end to end, on local paths. Needs root, rsync and the mkfs programs.

mod attributes;
mod slash;
mod support;
mod user;
