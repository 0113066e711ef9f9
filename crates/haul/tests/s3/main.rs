//! The program against real object stores on loopback, and against one that answers as a test says.

mod support;

mod accounts;
mod between;
mod check;
mod etags;
mod faults;
mod flags;
mod forms;
mod keys;
mod large;
mod listing_json;
mod others;
mod owners;
mod pipes;
mod refused;
mod sync;
mod tree;
mod trust;
mod wishes;
