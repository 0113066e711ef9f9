//! What sessions of the tests' own sshd find.

use std::path::Path;
use std::process::Command;

use haul_test::sshd::Sshd;

#[test]
fn sessions_have_a_path_of_their_own_and_what_was_set() {
    for (lines, home) in [("", "/home"), ("SetEnv HOME=/dev MORE=1", "/dev"), ("SetEnv HOME=/dev PATH=/bin\nPrintMotd no", "/dev")] {
        let server = Sshd::start(lines).expect("sshd can be started: openssh-server and root");
        let mut ssh = Command::new("ssh");
        let out = ssh.arg("-F").arg(server.config()).args(["testhost", "echo", "$PATH:$HOME"]).output().expect("ssh runs");
        let said = String::from_utf8_lossy(&out.stdout).trim().to_string();
        let (path, at) = said.rsplit_once(':').expect("two");
        assert!(!path.split(':').any(|dir| dir.contains("local") || Path::new(dir).join("haul").exists()), "{said}");
        assert!(!lines.contains("PATH") || path == "/bin", "{said}");
        assert!(at.ends_with(home), "{said}\n{}", server.log());
    }
}
