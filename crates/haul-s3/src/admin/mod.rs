//! Operations on buckets by listings alone, without a store's entries: keys, versions and unfinished uploads are listed and
//! removed, in batches and in parallel.

mod list;
mod ranges;
mod remove;
mod scope;

pub use ranges::Range;
pub use remove::{BATCHES_AT_ONCE, Batch, Gone, Removed, Reporter, Rm, leaf, remove_bucket, rm, rm_uploads};
pub use scope::{Match, Scope, What, Wild, nothing};
