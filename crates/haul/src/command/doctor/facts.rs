//! What is known of a host. These structs are what `--json` prints; `docs/json.md` describes it. Every key is always
//! there, `null` where nothing is known. What the remote host says is made safe to show where it comes in.

use serde::Serialize;

/// All that `--json` prints.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    pub event: &'static str,
    pub time: String,
    pub version: u32,
    pub hosts: &'a [Facts],
}

#[derive(Debug, Default, Serialize)]
pub struct Facts {
    pub host: String,
    pub usable: bool,
    pub route: Option<&'static str>,
    pub error: Option<Failure>,
    pub login: Option<Login>,
    pub connection: Option<Connection>,
    pub system: Option<System>,
    pub haul: Option<Haul>,
    pub haul_error: Option<String>,
    pub sftp: Option<Sftp>,
    pub sftp_error: Option<String>,
    pub sessions: Option<Sessions>,
    pub round_trip: Option<f64>,
    pub clock: Option<Clock>,
    pub data: Option<Data>,
    pub home: Option<Home>,
    pub ftp: Option<Ftp>,
    pub advice: Vec<String>,
}

/// An FTP server.
#[derive(Debug, Default, Serialize)]
pub struct Ftp {
    pub system: String,
    pub protection: &'static str,
    pub abilities: Vec<String>,
    pub listing_seconds: Option<f64>,
    pub data_error: Option<String>,
}

#[derive(Debug, Serialize)]
pub struct Failure {
    pub reason: String,
    pub next_step: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Login {
    pub seconds: f64,
    pub user: Option<String>,
    pub method: Option<String>,
    pub master: &'static str,
    pub server: Option<String>,
    pub cipher_out: Option<String>,
    pub cipher_in: Option<String>,
}

/// As the host sees it.
#[derive(Debug, Default, Serialize)]
pub struct Connection {
    pub from: String,
    pub from_port: u16,
    pub to: String,
    pub to_port: u16,
}

#[derive(Debug, Default, Serialize)]
pub struct System {
    pub name: String,
    pub shell: Option<String>,
    pub noise: usize,
}

#[derive(Debug, Default, Serialize)]
pub struct Haul {
    pub version: String,
    pub path: Option<String>,
    pub protocol: u64,
}

#[derive(Debug, Default, Serialize)]
pub struct Sftp {
    pub extensions: Vec<&'static str>,
    pub read: usize,
    pub write: usize,
}

#[derive(Debug, Default, Serialize)]
pub struct Sessions {
    pub opened: usize,
    pub tried: usize,
}

#[derive(Debug, Default, Serialize)]
pub struct Clock {
    pub ahead: f64,
    pub within: f64,
}

#[derive(Debug, Default, Serialize)]
pub struct Data {
    pub out: Direction,
    /// `None` without `--accept`: then this machine does not listen.
    #[serde(rename = "in")]
    pub into: Option<Direction>,
}

#[derive(Debug, Default, Serialize)]
pub struct Direction {
    pub works: bool,
    pub address: Option<String>,
    pub port: Option<u16>,
    pub seconds: f64,
    pub bytes: Option<u64>,
    /// The cipher suite of TLS.
    pub cipher: Option<String>,
    pub error: Option<String>,
}

#[derive(Debug, Default, Serialize)]
pub struct Home {
    pub path: Option<String>,
    pub file_system: Option<String>,
    pub free: Option<u64>,
    pub size: Option<u64>,
    pub free_inodes: Option<u64>,
    pub inodes: Option<u64>,
}

impl Connection {
    /// `SSH_CONNECTION`: address and port of the one end, then of the other.
    pub fn read(words: &str) -> Option<Connection> {
        let mut words = words.split(' ');
        let (from, from_port, to, to_port) = (words.next()?, words.next()?, words.next()?, words.next()?);
        let address = |text: &str| text.parse::<std::net::IpAddr>().ok().map(|at| at.to_string());
        Some(Connection { from: address(from)?, from_port: from_port.parse().ok()?, to: address(to)?, to_port: to_port.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use haul_test::documented::{documented, keys};

    #[test]
    fn the_document_has_the_documented_keys_and_no_others() {
        let facts = Facts {
            error: Some(Failure { reason: String::new(), next_step: None }),
            login: Some(Login::default()),
            connection: Connection::read("192.0.2.1 1 2001:db8::1 22"),
            system: Some(System::default()),
            haul: Some(Haul::default()),
            sftp: Some(Sftp::default()),
            sessions: Some(Sessions::default()),
            clock: Some(Clock::default()),
            data: Some(Data { into: Some(Direction::default()), ..Data::default() }),
            home: Some(Home::default()),
            ftp: Some(Ftp::default()),
            ..Facts::default()
        };
        let document = Document { event: "doctor", time: String::new(), version: 1, hosts: &[facts] };
        let produced = keys(&serde_json::to_value(&document).expect("JSON"));
        assert_eq!(Some(&produced), documented().get("doctor"));
    }

    #[test]
    fn what_is_no_connection_is_none() {
        for words in ["", "192.0.2.1 1 192.0.2.2", "x 1 y 2", "192.0.2.1 99999 192.0.2.2 22"] {
            assert!(Connection::read(words).is_none(), "{words}");
        }
    }
}
