//! The program against real object stores on loopback, and against one that answers as a test says.

mod support;

mod faults;
mod keys;
mod large;
mod refused;
mod sync;
mod tree;
