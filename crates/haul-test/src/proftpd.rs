//! A real ProFTPD on loopback, with nothing but mod_sftp: SFTP of another make, behind an ssh server of its own.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::port::free_port;

const SERVER: &str = "/usr/sbin/proftpd";

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct Proftpd {
    place: tempfile::TempDir,
    child: Child,
}

impl Proftpd {
    /// root logs in with a key; there is no cage.
    pub fn start() -> io::Result<Proftpd> {
        let place = tempfile::Builder::new().prefix("haul-proftpd-").tempdir()?;
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        let show = |name: &str| place.path().join(name).display().to_string();
        for (key, kind) in [("host_key", "ecdsa"), ("user_key", "rsa")] {
            keygen(&["-q", "-t", kind, "-m", "PEM", "-N", "", "-C", key, "-f", &show(key)])?;
        }
        // It takes keys in the form of RFC 4716 alone.
        fs::write(show("authorized_keys"), keygen(&["-e", "-f", &show("user_key.pub")])?)?;
        let port = free_port()?;
        let config = format!(
            "ModulePath /usr/lib/proftpd\nLoadModule mod_sftp.c\nServerName test\nServerType standalone\nDefaultAddress 127.0.0.1\n\
             Port {port}\nUseIPv6 off\nUser nobody\nGroup nogroup\nRootLogin on\nRequireValidShell off\nUseFtpUsers off\nAllowOverwrite on\n\
             AuthOrder mod_auth_unix.c\nWtmpLog off\nMaxInstances 500\nMaxClients 500\nUmask 022\nPidFile {}\nScoreboardFile {}\nDelayTable none\nSystemLog {}\n\
             ListOptions \"-a\"\nSFTPEngine on\nSFTPHostKey {}\nSFTPAuthorizedUserKeys file:{}\nSFTPAuthMethods publickey\nSFTPLog {}\n\
             <Directory />\n  AllowOverwrite on\n</Directory>\n",
            show("pid"),
            show("scoreboard"),
            show("system_log"),
            show("host_key"),
            show("authorized_keys"),
            show("log"),
        );
        fs::write(show("proftpd.conf"), config)?;
        let errors = fs::File::create(show("errors"))?;
        // It takes another user's rights, with which the system forgets whose death it should follow: the shell sees the end
        // of its input when the test is gone, however that was.
        let mut server = Command::new("sh");
        server.args(["-c", "\"$@\" & cat >/dev/null; kill $!; wait $!", "sh", SERVER, "--nodaemon", "-c", &show("proftpd.conf")]);
        server.stdin(Stdio::piped()).stdout(errors.try_clone()?).stderr(errors);
        let mut child = server.spawn()?;
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let said =
                || fs::read_to_string(show("errors")).unwrap_or_default() + &fs::read_to_string(show("system_log")).unwrap_or_default();
            if Instant::now() > until {
                drop(child.stdin.take());
                let _ = child.wait();
                return Err(io::Error::other(format!("proftpd does not listen: {}", said())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let host = fs::read_to_string(show("host_key.pub"))?;
        fs::write(show("known_hosts"), format!("[127.0.0.1]:{port} {host}"))?;
        let client = format!(
            "Host testhost\n  HostName 127.0.0.1\n  Port {port}\n  User root\nHost *\n  IdentityFile {}\n  IdentitiesOnly yes\n  \
             UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
            show("user_key"),
            show("known_hosts"),
        );
        fs::write(show("ssh_config"), client)?;
        Ok(Proftpd { place, child })
    }

    /// For ssh's `-F`. It knows the server as `testhost`.
    pub fn config(&self) -> PathBuf {
        self.place.path().join("ssh_config")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.place.path().join("log")).unwrap_or_default()
    }
}

fn keygen(arguments: &[&str]) -> io::Result<Vec<u8>> {
    let made = Command::new("ssh-keygen").args(arguments).stdin(Stdio::null()).output()?;
    if made.status.success() { Ok(made.stdout) } else { Err(io::Error::other(String::from_utf8_lossy(&made.stderr).into_owned())) }
}

impl Drop for Proftpd {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}
