//! Real web servers on loopback, on free ports: nginx, Apache, and `rclone serve http`.

use std::fs;
use std::io;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::port::free_port;
use crate::sshd::start_with_us;

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct WebServer {
    place: tempfile::TempDir,
    pub port: u16,
    child: Child,
}

impl WebServer {
    /// nginx with index pages of `root` at `/`; `lines` go into its one `server` block.
    pub fn nginx(root: &Path, lines: &str) -> io::Result<WebServer> {
        Self::start("nginx", |place, port| {
            let at = |name: &str| place.join(name).display().to_string();
            let temporary: String =
                ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].iter().map(|name| format!("{name}_temp_path {};", at(name))).collect();
            let config = format!(
                "daemon off; user root; pid {}; error_log {}; worker_processes 1;\nevents {{ worker_connections 512; }}\n\
                 http {{ access_log {} ; {temporary}\nserver {{ listen 127.0.0.1:{port}; root {}; autoindex on; autoindex_exact_size off;\n\
                 {lines}\n}} }}\n",
                at("pid"),
                at("error"),
                at("access"),
                root.display()
            );
            fs::write(at("conf"), config)?;
            let mut command = Command::new("/usr/sbin/nginx");
            command.args(["-c", &at("conf"), "-p", &place.display().to_string()]);
            Ok(command)
        })
    }

    /// Apache's httpd with index pages.
    pub fn apache(root: &Path) -> io::Result<WebServer> {
        Self::start("apache", |place, port| {
            let at = |name: &str| place.join(name).display().to_string();
            let modules = ["mpm_event", "authz_core", "dir", "autoindex", "mime"];
            let modules: String =
                modules.iter().map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")).collect();
            let config = format!(
                "ServerName test\nListen 127.0.0.1:{port}\nPidFile {}\nErrorLog {}\n{modules}TypesConfig /etc/mime.types\nMutex file:{}\n\
                 DocumentRoot {root}\n<Directory {root}>\n  Require all granted\n  Options Indexes\n  IndexOptions FancyIndexing NameWidth=*\n</Directory>\n",
                at("pid"),
                at("error"),
                place.display(),
                root = root.display(),
            );
            fs::write(at("conf"), config)?;
            let mut command = Command::new("/usr/sbin/apache2");
            command.args(["-D", "FOREGROUND", "-f", &at("conf")]);
            Ok(command)
        })
    }

    /// `rclone serve http`.
    pub fn rclone(root: &Path) -> io::Result<WebServer> {
        Self::start("rclone", |place, port| {
            let mut command = Command::new("rclone");
            command
                .args(["serve", "http", "--config", "/dev/null", "--dir-cache-time", "0s", "--addr", &format!("127.0.0.1:{port}")])
                .arg(root);
            command.env("HOME", place);
            Ok(command)
        })
    }

    fn start(name: &str, command: impl Fn(&Path, u16) -> io::Result<Command>) -> io::Result<WebServer> {
        let place = tempfile::Builder::new().prefix(&format!("haul-{name}-")).tempdir()?;
        let port = free_port()?;
        let mut command = command(place.path(), port)?;
        let log = fs::File::create(place.path().join("output"))?;
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let shown = format!("{:?}", command.get_program());
        let child = start_with_us(command).map_err(|e| io::Error::new(e.kind(), format!("{shown}: {e}")))?;
        let mut server = WebServer { place, port, child };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            let said = || ["output", "error"].map(|name| fs::read_to_string(server.place.path().join(name)).unwrap_or_default()).concat();
            if let Some(status) = server.child.try_wait()? {
                return Err(io::Error::other(format!("{shown} ended: {status}: {}", said())));
            }
            if Instant::now() > until {
                return Err(io::Error::other(format!("{shown} does not listen: {}", said())));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// `http://127.0.0.1:PORT/` and a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// nginx's log: a line for each request that was answered, as `METHOD path HTTP/1.1" status bytes`.
    pub fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.place.path().join("access")).unwrap_or_default();
        log.lines().filter_map(|line| Some(line.split_once('"')?.1.rsplit_once(" \"-\" ")?.0.to_string())).collect()
    }

    /// Where the server's own files are.
    pub fn place(&self) -> PathBuf {
        self.place.path().to_path_buf()
    }
}

impl Drop for WebServer {
    fn drop(&mut self) {
        if let Some(group) = i32::try_from(self.child.id()).ok().and_then(rustix::process::Pid::from_raw) {
            // It may have ended by itself.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}
