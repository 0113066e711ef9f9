//! Real web servers on loopback, on free ports: nginx, Apache, and `rclone serve http`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::objects::{Endpoint, Running};

/// The server, stopped when this is dropped.
#[derive(Debug)]
pub struct WebServer {
    running: Running,
    pub port: u16,
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
        let lines = format!(
            "TypesConfig /etc/mime.types\nDocumentRoot {root}\n<Directory {root}>\n  Require all granted\n  Options Indexes\n  \
             IndexOptions FancyIndexing NameWidth=*\n</Directory>\n",
            root = root.display(),
        );
        Self::httpd(&["mpm_event", "authz_core", "dir", "autoindex", "mime"], &lines)
    }

    fn httpd(modules: &[&str], lines: &str) -> io::Result<WebServer> {
        Self::start("apache", |place, port| {
            let at = |name: &str| place.join(name).display().to_string();
            let modules: String =
                modules.iter().map(|name| format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{name}.so\n")).collect();
            let config = format!(
                "ServerName test\nListen 127.0.0.1:{port}\nPidFile {}\nErrorLog {}\n{modules}Mutex file:{}\n\
                 CustomLog {} \"%h \\\"%r\\\" %>s %b \\\"-\\\"  \"\n{lines}",
                at("pid"),
                at("error"),
                place.display(),
                at("access"),
            );
            fs::write(at("conf"), config)?;
            let mut command = Command::new("/usr/sbin/apache2");
            command.args(["-D", "FOREGROUND", "-f", &at("conf")]);
            Ok(command)
        })
    }

    /// Apache's httpd as a forward proxy, which connects to these ports.
    pub fn apache_proxy(ports: &str) -> io::Result<WebServer> {
        let lines = format!("ProxyRequests On\nAllowCONNECT {ports}\n<Proxy *>\n  Require all granted\n</Proxy>\n");
        Self::httpd(&["mpm_event", "authz_core", "proxy", "proxy_connect"], &lines)
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

    /// `python3 -m http.server`.
    pub fn python(root: &Path) -> io::Result<WebServer> {
        Self::start("python", |_, port| {
            let mut command = Command::new("python3");
            command.args(["-m", "http.server", "--bind", "127.0.0.1", &port.to_string(), "--directory"]).arg(root);
            Ok(command)
        })
    }

    fn start(name: &str, command: impl FnOnce(&Path, u16) -> io::Result<Command>) -> io::Result<WebServer> {
        let (running, port) = Running::listening(name, command)?;
        Ok(WebServer { running, port })
    }

    /// `http://127.0.0.1:PORT/` and a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// What stands behind a scripted server.
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::at("http", self.port)
    }

    /// The log of nginx or Apache: a line for each request that was answered, as `METHOD path HTTP/1.1" status bytes`.
    pub fn requests(&self) -> Vec<String> {
        let log = fs::read_to_string(self.running.place.path().join("access")).unwrap_or_default();
        log.lines().filter_map(|line| Some(line.split_once('"')?.1.rsplit_once(" \"-\" ")?.0.to_string())).collect()
    }

    /// Where the server's own files are.
    pub fn place(&self) -> PathBuf {
        self.running.place.path().to_path_buf()
    }
}
