//! `haul bench`, and what `haul why` says of a run: rates, on processors that nothing else uses.

// Each adds to a `World` of its own.
#![allow(clippy::duplicate_mod)]

mod compare;
mod data;
mod files;
mod net;
mod report;
mod why;
