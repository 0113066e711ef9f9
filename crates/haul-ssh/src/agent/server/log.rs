//! Lines in the system's log: that an agent began, where it listens, and that it ended.

use std::fmt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;

const LOG: &str = "/dev/log";
/// Facility "auth", as sftp-server's, and severity "info".
const PRIORITY: u8 = 4 * 8 + 6;

#[derive(Debug, Default)]
pub struct Log(Option<UnixDatagram>);

impl Log {
    pub fn open() -> Log {
        Log::at(Path::new(LOG))
    }

    fn at(path: &Path) -> Log {
        let socket = UnixDatagram::unbound().ok().filter(|socket| socket.connect(path).is_ok());
        // A log that takes nothing must not stop the work.
        Log(socket.filter(|socket| socket.set_nonblocking(true).is_ok()))
    }

    pub fn line(&self, text: impl fmt::Display) {
        if let Some(socket) = &self.0 {
            let text: String = text.to_string().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
            // It may have been stopped.
            let _ = socket.send(format!("<{PRIORITY}>haul[{}]: {text}", std::process::id()).as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_to_the_log_and_nothing_waits_without_one() {
        let place = tempfile::tempdir().expect("a temporary directory");
        let path = place.path().join("log");
        Log::at(&path).line("nobody hears it");
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).expect("set");
        Log::at(&path).line("agent\nbegan");
        let mut line = [0; 100];
        let count = socket.recv(&mut line).expect("a line");
        assert_eq!(line[..count].escape_ascii().to_string(), format!("<38>haul[{}]: agent began", std::process::id()));
    }
}
