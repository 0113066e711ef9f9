//! The documents that the service sends and takes.
//!
//! Listings are walked once and handed out as they are read; all other answers are read by serde. What a server sends is
//! hostile: a document that is cut short, nested without end, not UTF-8 or without what it must say is a [`Fault`], never a
//! guess. A document type is refused, so that there are no entities but XML's own five and character references.
//!
//! A service may say `200` and send an error all the same. So each reader takes an `<Error>` document in place of
//! its own for what it is: [`Fault::Service`].

mod answer;
mod listing;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;

pub use answer::{
    Bucket, Made, Part, Refusal, ServiceError, completed, copied, deleted, error, initiated, list_buckets, list_parts, location, tags,
};
pub use listing::{Page, list_objects, list_uploads, list_versions};
pub use write::{CompletePart, complete_upload, create_bucket, delete_objects};

/// Why a document could not be read. The texts are short and may hold what the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is no XML, or cut short; with the byte where that showed.
    Malformed { at: usize, why: String },
    /// Another document than the one asked for: an HTML page of a proxy, as a rule.
    Other { root: String },
    /// An element that must be there is not.
    Missing { element: &'static str, within: &'static str },
    /// An element holds what it cannot hold.
    Bad { element: &'static str, text: String },
    /// The service answered with an error.
    Service(Box<ServiceError>),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Malformed { at, why } => write!(f, "the answer is no XML at byte {at}: {why}"),
            Fault::Other { root } => write!(f, "the answer is another document: <{}>", haul_core::entry::show(root.as_bytes())),
            Fault::Missing { element, within } => write!(f, "the answer has no <{element}> in <{within}>"),
            Fault::Bad { element, text } => {
                write!(f, "the answer's <{element}> makes no sense: {:?}", haul_core::entry::show(text.as_bytes()))
            }
            Fault::Service(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Fault {}

/// At most so much of a text as a message can bear, cut between characters.
fn shorten(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
