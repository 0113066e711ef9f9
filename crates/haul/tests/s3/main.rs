//! The program against real object stores on loopback, and against one that answers as a test says.

mod support;

mod large;
mod sync;
mod tree;
