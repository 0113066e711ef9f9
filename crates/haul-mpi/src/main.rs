//! The program `haul-mpi`: haul's command line, as one rank of the job that mpirun or srun has started.

use std::process::ExitCode;
use std::sync::Arc;

use haul::{Code, Member};
use haul_mpi::{Ended, Mpi};

fn main() -> ExitCode {
    let mpi = match Mpi::start() {
        Ok(mpi) => Arc::new(mpi),
        Err(e) => return haul::failed(&e).into(),
    };
    let code = haul::run(Some(Member { transport: mpi.clone(), library: Mpi::library() }));
    // The job ends when all ranks have: mpirun ends the others when one of them ends with an error.
    let codes = mpi.end(if code.is_forced() { Ended::Stopped(code.0) } else { Ended::Done(code.0) });
    match codes {
        Ok(codes) if mpi.is_first() => Code::worst(&codes).into(),
        // Its code has been told to the first rank.
        Ok(_) => ExitCode::SUCCESS,
        Err(e) => {
            let failed = haul::failed(&e);
            if code == Code(0) { failed.into() } else { code.into() }
        }
    }
}
