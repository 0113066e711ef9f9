//! Web servers: files by `http://` and `https://`, for reading.
//!
//! ```text
//! provider -> host -> store (a directory)  -> source (a file)
//!                       -> page (links of an index page)   -> client (one request)
//! ```
//!
//! A directory is an address that ends in a slash and answers with a page of links, as Apache, nginx and `rclone serve http` make
//! them. Every range is requested under the ETag or the time of the first answer, so that a change is noticed (RFC 9110,
//! sections 13 and 14).

#![warn(clippy::print_stdout, clippy::print_stderr)]

mod client;
mod disposition;
mod flags;
mod host;
mod link;
mod page;
mod provider;
mod source;
mod store;
mod sums;

pub use flags::Flags;
pub use provider::{HTTP, HTTPS, WebProvider};
