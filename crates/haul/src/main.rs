//! The program `haul`.

use std::process::ExitCode;

fn main() -> ExitCode {
    haul::run(None).into()
}
