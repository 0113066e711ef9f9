//! What grows without bound goes to disk.
