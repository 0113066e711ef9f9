//! A scratch directory, and a command of the program in it.

use std::ops::Deref;

use haul_test::program::{Ended, Program};
use haul_test::scratch::Scratch;

pub struct World {
    scratch: Scratch,
    command: &'static str,
}

impl Deref for World {
    type Target = Scratch;

    fn deref(&self) -> &Scratch {
        &self.scratch
    }
}

impl World {
    /// For a command of `haul bench`, with its first options.
    pub fn of(command: &'static str) -> World {
        World { scratch: Scratch::new(), command }
    }

    pub fn command(&self, words: &str) -> Program {
        self.haul(&format!("bench {} {words}", self.command))
    }

    #[track_caller]
    pub fn ends(&self, code: i32, words: &str) -> Ended {
        self.command(words).ends(code)
    }
}
