//! Large files: each is opened once, moved in chunks by one worker or by several, and finished by whoever lands the last.
//!
//! `run.rs` has the stages in their order.

mod carry;
mod commit;
mod compare;
mod delta;
mod failure;
mod open;
pub mod open_file;
pub mod run;
mod shown;
mod stream;
mod within;
