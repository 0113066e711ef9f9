//! The documents that the service sends and takes.
