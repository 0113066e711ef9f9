//! `haul bench`: one file per subcommand.

use crate::exit::Exit;
use crate::flags::Global;
use crate::flags::bench::BenchCommand;

mod compare;
mod comparison;
mod data;
mod files;
mod net;
pub mod report;
mod runs;

pub use runs::width;

pub fn run(command: &BenchCommand, global: &Global) -> Exit {
    match command {
        BenchCommand::Data(flags) => data::run(flags, global),
        BenchCommand::Files(flags) => files::run(flags, global),
        BenchCommand::Net(flags) => net::run(flags, global),
        BenchCommand::Compare(flags) => compare::run(flags, global),
        BenchCommand::Report(flags) => report::run(flags, global),
    }
}
