//! Several processes that do one job: ranks, which give each other work.

mod transport;

pub use transport::{Transport, threads};
