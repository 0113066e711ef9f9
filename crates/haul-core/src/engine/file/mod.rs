//! Large files: opened once, moved in chunks by one worker or several, finished by the worker that lands the last chunk. `run.rs`
//! has the stages in order.

mod carry;
mod commit;
mod compare;
mod delta;
pub mod failure;
mod open;
pub mod open_file;
mod ordered_verify;
pub mod part;
pub mod run;
mod stream;
mod waiting;
mod within;
