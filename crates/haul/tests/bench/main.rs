//! `haul bench`, and what `haul why` says of a run: rates, on processors that nothing else uses.

mod compare;
mod data;
mod files;
mod net;
mod report;
mod why;
