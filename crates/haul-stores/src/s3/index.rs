//! What was learned of objects whose listing does not say it: kind, mode and times by key and ETag, in a file that may be lost.
