//! Messages between ranks over the machine's MPI. The program is `main.rs`.

mod library;
mod queue;
mod transport;

pub use transport::{Ended, Mpi};
