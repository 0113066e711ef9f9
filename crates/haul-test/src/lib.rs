//! What the tests of haul stand on: the conformance suite that defines a backend, file systems that are slow
//! or fail on command, trees to copy, and a comparer that shares no code with what it judges.

pub mod compare;
pub mod content;
pub mod fault;
pub mod nasty;
pub mod nobody;
pub mod slowfs;
pub mod suite;
pub mod tree;
pub mod volume;
