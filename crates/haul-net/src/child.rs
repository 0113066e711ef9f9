//! Programs that carry data, as child processes.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::OwnedFd;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use haul_core::error::{Error, ErrorKind, Result};

/// Starts a program that ends with this one, however that ends. The kernel counts the end of the starting thread, so that thread
/// waits for the child.
pub fn start(mut command: Command) -> Result<(Child, ChildStdin, ChildStdout)> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    detach(&mut command);
    let mut child = command.spawn().map_err(|e| Error::io(e, "start").at(command.get_program().as_encoded_bytes()))?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => Ok((child, input, output)),
        _ => Err(Error::new(ErrorKind::Other, "start").because("no pipes")),
    }
}

/// Starts a program with which haul talks over a socket, which is its standard input and output.
pub fn start_over(mut command: Command, socket: OwnedFd) -> Result<Child> {
    let failed = |e| Error::io(e, "start");
    command.stdin(socket.try_clone().map_err(failed)?).stdout(socket);
    detach(&mut command);
    command.spawn().map_err(|e| failed(e).at(command.get_program().as_encoded_bytes()))
}

/// Starts a program that must not outlive this one, however this one ends. The system counts the end of the thread that
/// started it, so that thread ends no sooner than the child.
pub fn start_with_us(mut command: Command) -> Result<Child> {
    let failed = |e| Error::io(e, "start");
    let program = command.get_program().to_os_string();
    detach(&mut command);
    let go_along = || rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM)).map_err(Into::into);
    // SAFETY: the closure makes one system call between fork and exec.
    unsafe { std::os::unix::process::CommandExt::pre_exec(&mut command, go_along) };
    let (send, receive) = std::sync::mpsc::channel();
    let started = std::thread::Builder::new().name("login".into()).spawn(move || {
        let spawned = command.spawn();
        // It holds an end of the pipe that the program writes to, which else would never end.
        drop(command);
        let started = spawned.as_ref().map(rustix::process::Pid::from_child).ok();
        // The receiver waits until this comes.
        let _ = send.send(spawned);
        if let Some(pid) = started {
            // Whoever has the child reaps it; that ends this wait, too.
            let ended = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
            while matches!(rustix::process::waitid(rustix::process::WaitId::Pid(pid), ended), Err(rustix::io::Errno::INTR)) {}
        }
    });
    started.map_err(failed)?;
    let spawned = receive.recv().unwrap_or_else(|_| Err(std::io::Error::other("the thread that starts it ended")));
    spawned.map_err(|e| failed(e).at(program.as_encoded_bytes()))
}

/// Runs a program that reads nothing to its end: its status, and what it printed. `TimedOut` where that takes longer than `most`; then
/// it is ended.
pub fn run(mut command: Command, most: Duration) -> Result<(ExitStatus, Vec<u8>)> {
    let failed = |e: std::io::Error| Error::io(e, "start");
    // Not a pipe: whatever the program has started may hold one open.
    let memory = rustix::fs::memfd_create("output", rustix::fs::MemfdFlags::CLOEXEC).map_err(|e| failed(e.into()))?;
    let mut output = File::from(memory);
    command.stdin(Stdio::null()).stdout(output.try_clone().map_err(failed)?).stderr(Stdio::null());
    let mut child = command.spawn().map_err(failed)?;
    let until = Instant::now() + most;
    let status = loop {
        match child.try_wait().map_err(failed)? {
            Some(status) => break status,
            None if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            None => {
                end(&mut child);
                return Err(Error::new(ErrorKind::TimedOut, "start"));
            }
        }
    };
    let mut printed = Vec::new();
    output.rewind().and_then(|()| output.read_to_end(&mut printed)).map_err(failed)?;
    Ok((status, printed))
}

/// Ends a program, which may have ended before, and waits for that.
pub fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// Shields a program that carries data from the terminal's interrupt and hangup: haul finishes what is in flight.
pub fn detach(command: &mut Command) {
    let ignore = || {
        // SAFETY: called between fork and exec, where signal(2) is allowed; it touches no memory of ours.
        unsafe {
            libc::signal(libc::SIGINT, libc::SIG_IGN);
            libc::signal(libc::SIGHUP, libc::SIG_IGN);
        }
        Ok(())
    };
    // SAFETY: the closure makes one call that is async-signal-safe.
    unsafe { std::os::unix::process::CommandExt::pre_exec(command, ignore) };
}
