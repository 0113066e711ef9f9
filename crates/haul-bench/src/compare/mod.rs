//! Other tools on the same work.

pub mod ranking;
pub mod table;
pub mod words;

pub use ranking::{Row, rank};
pub use table::{BUILT_IN, Route, Tool};
pub use words::Words;
