//! The documents that the service sends and takes.
//!
//! Listings are walked once and handed out as they are read; all other answers are read by serde. A server is hostile: a document
//! that is cut short, nested too deep, not UTF-8 or incomplete is a [`Fault`]. Document types are refused, so that there are no
//! entities but XML's own five and character references. An `<Error>` document sent with status `200` is [`Fault::Service`].

mod acl;
mod answer;
mod listing;
mod walk;
mod write;

#[cfg(test)]
mod tests;

use std::fmt;

pub use acl::{Acl, Grant, Grantee, acl};
pub use answer::{
    Bucket, Made, Part, Refusal, ServiceError, completed, copied, deleted, error, initiated, list_buckets, list_parts, location, tags,
    versioning,
};
pub use listing::{Page, list_objects, list_uploads, list_versions};
pub use write::{CompletePart, complete_upload, create_bucket, delete_objects, restore, set_versioning, tagging};

/// Why a document could not be read. The texts are short and may hold what the server sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is no XML, or cut short; with the byte where that showed.
    Malformed {
        at: usize,
        why: String,
    },
    /// Another document than the one asked for: an HTML page of a proxy, as a rule.
    Other {
        root: String,
    },
    Missing {
        element: &'static str,
        within: &'static str,
    },
    Bad {
        element: &'static str,
        text: String,
    },
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
