//! What is done with buckets by listings alone, without a store's entries: keys, versions and unfinished uploads listed and
//! removed, by the lot and in parallel.

mod list;
mod remove;
mod scope;

pub use remove::{Gone, Removed, Rm, Told, remove_bucket, rm, rm_uploads};
pub use scope::{Match, Scope, What, Wild, nothing};
