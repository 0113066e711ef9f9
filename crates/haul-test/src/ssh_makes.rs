//! SSH servers of other makes on loopback: ProFTPD, and Dropbear, rclone, asyncssh and paramiko, which `ssh-servers.sh` installs.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::account::Account;
use crate::objects::Running;
use crate::sshd::{client_files, keygen, run};

const PYTHON: &str = include_str!("sftp_server.py");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Make {
    /// With the sftp-server of OpenSSH, and a shell.
    Dropbear,
    /// `rclone serve sftp`: no links, and no modes.
    Rclone,
    Asyncssh,
    Paramiko,
    /// With mod_sftp alone.
    Proftpd,
}

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct SshMake {
    running: Running,
    account: Option<Account>,
}

/// Where `ssh-servers.sh` puts what it installs.
fn installed(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/ssh-servers").join(name)
}

impl SshMake {
    /// rclone shows `root` as `/`, the others all of this machine. Dropbear has an account of its own, whose files they are.
    pub fn start(make: Make, root: &Path) -> io::Result<SshMake> {
        let mut account = None;
        let (running, _) = Running::listening("ssh", |place, port| {
            let at = |name: &str| place.join(name);
            let kinds: [&[&str]; 2] = match make {
                // It takes no others.
                Make::Proftpd => [&["-t", "ecdsa", "-m", "PEM"], &["-t", "rsa", "-m", "PEM"]],
                _ => [&["-t", "ed25519"]; 2],
            };
            keygen(kinds[0], &at("host_key"))?;
            keygen(kinds[1], &at("user_key"))?;
            let public = fs::read_to_string(at("user_key.pub"))?;
            fs::write(at("authorized_keys"), &public)?;
            if make == Make::Dropbear {
                account = Some(Account::new("/bin/bash")?);
            }
            client_files(place, port, account.as_ref().map_or("root", |account| &account.name))?;
            Ok(match (make, &account) {
                (Make::Dropbear, Some(account)) => {
                    account.file(".ssh/authorized_keys", &public)?;
                    fs::set_permissions(account.home().join(".ssh"), fs::Permissions::from_mode(0o700))?;
                    let dropbear = |program: &str| {
                        let mut command = Command::new(installed("dropbear/usr").join(program));
                        let libraries = format!("dropbear/usr/lib/{}-linux-gnu", std::env::consts::ARCH);
                        command.env("LD_LIBRARY_PATH", installed(&libraries));
                        command
                    };
                    let converted = ["openssh", "dropbear"];
                    run(dropbear("bin/dropbearconvert").args(converted).arg(at("host_key")).arg(at("host_key.dropbear")))?;
                    let mut command = dropbear("sbin/dropbear");
                    command.args(["-F", "-E", "-p", &format!("127.0.0.1:{port}"), "-P"]).arg(at("pid"));
                    command.arg("-r").arg(at("host_key.dropbear"));
                    command
                }
                (Make::Rclone, _) => {
                    let mut command = Command::new("rclone");
                    command.args(["serve", "sftp", "--addr", &format!("127.0.0.1:{port}"), "--config", "/dev/null"]);
                    command.args(["--dir-cache-time", "0s", "--key"]).arg(at("host_key"));
                    command.arg("--authorized-keys").arg(at("authorized_keys")).arg(root);
                    command
                }
                (Make::Proftpd, _) => {
                    // It takes keys in the form of RFC 4716 alone.
                    let key = run(Command::new("ssh-keygen").args(["-e", "-f"]).arg(at("user_key.pub")))?;
                    fs::write(at("authorized_keys"), key)?;
                    fs::write(at("conf"), proftpd(place, port))?;
                    let mut command = Command::new("/usr/sbin/proftpd");
                    command.args(["--nodaemon", "-c"]).arg(at("conf"));
                    command
                }
                _ => {
                    fs::write(at("server.py"), PYTHON)?;
                    let mut command = Command::new("python3");
                    command.env("PYTHONPATH", installed("python")).arg("-B").arg(at("server.py"));
                    command.arg(if make == Make::Asyncssh { "asyncssh" } else { "paramiko" });
                    command.arg(port.to_string()).arg(at("host_key")).arg(at("authorized_keys"));
                    command
                }
            })
        })?;
        Ok(SshMake { running, account })
    }

    /// For ssh's `-F`. It knows the server as `testhost`.
    pub fn config(&self) -> PathBuf {
        self.running.place.path().join("ssh_config")
    }

    /// Who owns what is written there, if that is not root.
    pub fn account(&self) -> Option<&Account> {
        self.account.as_ref()
    }
}

/// Its configuration, without a cage.
fn proftpd(place: &Path, port: u16) -> String {
    let at = |name: &str| place.join(name).display().to_string();
    format!(
        "ModulePath /usr/lib/proftpd\nLoadModule mod_sftp.c\nServerName test\nServerType standalone\nDefaultAddress 127.0.0.1\n\
         Port {port}\nUseIPv6 off\nUser root\nGroup root\nRootLogin on\nRequireValidShell off\nUseFtpUsers off\nAllowOverwrite on\n\
         AuthOrder mod_auth_unix.c\nWtmpLog off\nMaxInstances 500\nMaxClients 500\nUmask 022\nPidFile {}\nScoreboardFile {}\n\
         DelayTable none\nSystemLog {}\nListOptions \"-a\"\nSFTPEngine on\nSFTPHostKey {}\nSFTPAuthorizedUserKeys file:{}\n\
         SFTPAuthMethods publickey\n<Directory />\n  AllowOverwrite on\n</Directory>\n",
        at("pid"),
        at("scoreboard"),
        at("system_log"),
        at("host_key"),
        at("authorized_keys"),
    )
}
