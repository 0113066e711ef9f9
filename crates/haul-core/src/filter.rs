//! rsync's include and exclude rules.

/// To come.
#[derive(Clone, Debug, Default)]
pub struct Filter;
