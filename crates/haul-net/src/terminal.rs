//! Questions to whoever sits at the terminal.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use haul_core::error::{Error, Result};
use rustix::termios::{LocalModes, OptionalActions, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

/// Asks at the terminal, which does not show what is typed; `nobody` where there is none.
pub fn ask(question: &str, nobody: impl Fn() -> Error) -> Result<Zeroizing<String>> {
    let terminal = File::options().read(true).write(true).open("/dev/tty").map_err(|_| nobody())?;
    let before = tcgetattr(&terminal).map_err(|_| nobody())?;
    let mut silent = before.clone();
    silent.local_modes.remove(LocalModes::ECHO);
    let failed = |e: std::io::Error| Error::io(e, "log in");
    // Before the question: who answers at once is not shown either, and nothing that was typed is lost.
    tcsetattr(&terminal, OptionalActions::Now, &silent).map_err(|e| failed(e.into()))?;
    let asked = (&terminal).write_all(question.as_bytes());
    let mut answer = Zeroizing::new(String::new());
    let read = asked.and_then(|()| BufReader::new(&terminal).read_line(&mut answer));
    let restored = tcsetattr(&terminal, OptionalActions::Now, &before);
    (&terminal).write_all(b"\n").map_err(failed)?;
    read.map_err(failed)?;
    restored.map_err(|e| failed(e.into()))?;
    Ok(Zeroizing::new(answer.trim_end_matches(['\r', '\n']).to_string()))
}
