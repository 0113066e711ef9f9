//! Values in frames between two hauls: numbers as LEB128, bytes behind their length, entries by attributes. All input is checked
//! here: no other module indexes into a frame.

mod codes;
mod parser;
#[cfg(test)]
mod tests;
mod writer;

use haul_core::error::{Error, ErrorKind};

pub use codes::{algorithm_from, algorithm_to, kind_from, kind_to, who_from, who_to};
pub use parser::Parser;
pub use writer::Writer;

/// The other end violates the protocol: nothing that the connection carries can be trusted any more.
pub fn protocol_error(what: &str) -> Error {
    Error::new(ErrorKind::Broken, "read an answer").because(format!("the remote haul sent {what}"))
}
