//! Other tools on the same work.

pub mod table;
pub mod words;

pub use table::{BUILT_IN, Tool};
pub use words::Words;
