//! A directory of its own for one test.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use tempfile::TempDir;

use crate::compare::{What, assert_same};
use crate::program::{Program, haul};
use crate::tree::Tree;

/// A directory to work in, and beside it a home and a state directory. All of it is kept when the test fails.
#[derive(Debug)]
pub struct Scratch {
    directory: TempDir,
    pub work: PathBuf,
    pub home: PathBuf,
    pub state: PathBuf,
}

impl Scratch {
    #[expect(clippy::new_without_default, reason = "makes directories on disk, which a default should not")]
    pub fn new() -> Scratch {
        let directory = tempfile::Builder::new().prefix("haul-test-").tempdir().expect("a temporary directory");
        let root = directory.path().canonicalize().expect("it is there");
        let scratch = Scratch { directory, work: root.join("w"), home: root.join("home"), state: root.join("state") };
        for directory in [&scratch.work, &scratch.home] {
            fs::create_dir(directory).expect("made");
        }
        scratch
    }

    /// With a tree: see [`Tree::build`].
    #[track_caller]
    pub fn with(tree: &str) -> Scratch {
        let scratch = Scratch::new();
        scratch.tree(tree);
        scratch
    }

    /// A path below the working directory; the directory itself for an empty one.
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        if path.as_ref().as_os_str().is_empty() { self.work.clone() } else { self.work.join(path) }
    }

    /// Makes what the text says, see [`Tree::build`].
    #[track_caller]
    pub fn tree(&self, text: &str) -> Tree {
        let tree = Tree::new(&self.work).expect("it is there");
        tree.build(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        tree
    }

    /// Writes a file, with the directories above it.
    #[track_caller]
    pub fn write(&self, path: impl AsRef<Path>, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        let written = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, content));
        written.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    }

    #[track_caller]
    pub fn read(&self, path: impl AsRef<Path>) -> Vec<u8> {
        let path = self.path(path);
        fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    /// A file's content as text.
    #[track_caller]
    pub fn text(&self, path: impl AsRef<Path>) -> String {
        String::from_utf8(self.read(path)).expect("text")
    }

    /// The contents of all files below a directory, one behind the other.
    #[track_caller]
    pub fn all_text(&self, path: impl AsRef<Path>) -> String {
        let files = below(&self.path(path)).into_iter().filter(|(_, is_dir)| !is_dir);
        files.map(|(path, _)| String::from_utf8_lossy(&self.read(path)).into_owned()).collect()
    }

    /// Removes a file or a tree; what is absent is no error.
    #[track_caller]
    pub fn remove(&self, path: impl AsRef<Path>) {
        let path = self.path(path);
        let removed = if path.is_dir() && !path.is_symlink() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        assert!(removed.is_ok() || !path.exists(), "{}: {removed:?}", path.display());
    }

    #[track_caller]
    pub fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) {
        fs::rename(self.path(from), self.path(to)).expect("renamed");
    }

    #[track_caller]
    pub fn symlink(&self, target: impl AsRef<Path>, path: impl AsRef<Path>) {
        symlink(target, self.path(path)).expect("linked");
    }

    #[track_caller]
    pub fn hard_link(&self, old: impl AsRef<Path>, new: impl AsRef<Path>) {
        fs::hard_link(self.path(old), self.path(new)).expect("linked");
    }

    /// What a symlink points to.
    #[track_caller]
    pub fn target(&self, path: impl AsRef<Path>) -> String {
        fs::read_link(self.path(path)).expect("a symlink").display().to_string()
    }

    #[track_caller]
    pub fn chown(&self, path: impl AsRef<Path>, user: u32, group: u32) {
        std::os::unix::fs::lchown(self.path(path), Some(user), Some(group)).expect("set: root");
    }

    #[track_caller]
    pub fn chmod(&self, path: impl AsRef<Path>, mode: u32) {
        fs::set_permissions(self.path(path), fs::Permissions::from_mode(mode)).expect("set");
    }

    /// Gives a file or directory a time of the past, so that nothing made now has the same by chance.
    #[track_caller]
    pub fn age(&self, path: impl AsRef<Path>) {
        self.set_time(path, SystemTime::UNIX_EPOCH + Duration::from_secs(1_600_000_000));
    }

    #[track_caller]
    pub fn set_time(&self, path: impl AsRef<Path>, time: SystemTime) {
        fs::File::open(self.path(path)).and_then(|file| file.set_modified(time)).expect("set");
    }

    /// What the name itself is: of a symlink, not of what it leads to.
    #[track_caller]
    pub fn meta(&self, path: impl AsRef<Path>) -> fs::Metadata {
        let path = self.path(path);
        path.symlink_metadata().unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    }

    #[track_caller]
    pub fn mode(&self, path: impl AsRef<Path>) -> u32 {
        self.meta(path).mode() & 0o7777
    }

    #[track_caller]
    pub fn inode(&self, path: impl AsRef<Path>) -> u64 {
        self.meta(path).ino()
    }

    #[track_caller]
    pub fn owner(&self, path: impl AsRef<Path>) -> (u32, u32) {
        let meta = self.meta(path);
        (meta.uid(), meta.gid())
    }

    /// Whether the name exists, whatever its kind.
    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).symlink_metadata().is_ok()
    }

    /// The names in a directory, sorted; none when it is absent.
    pub fn entries(&self, path: impl AsRef<Path>) -> Vec<String> {
        entries(&self.path(path))
    }

    /// All paths below a directory, sorted, directories with a slash.
    #[track_caller]
    pub fn list(&self, path: impl AsRef<Path>) -> Vec<String> {
        let top = self.path(path);
        assert!(top.is_dir(), "{}: no directory", top.display());
        let shown = |(path, is_dir): (PathBuf, bool)| {
            let below = path.strip_prefix(&top).expect("it is below");
            format!("{}{}", below.to_string_lossy(), if is_dir { "/" } else { "" })
        };
        let mut names: Vec<String> = below(&top).into_iter().map(shown).collect();
        names.sort();
        names
    }

    /// The same, with blanks between.
    #[track_caller]
    pub fn names(&self, path: impl AsRef<Path>) -> String {
        self.list(path).join(" ")
    }

    /// Staging files below a directory, which may be absent.
    pub fn staging(&self, path: impl AsRef<Path>) -> Vec<PathBuf> {
        staging(&self.path(path))
    }

    #[track_caller]
    pub fn assert_same(&self, a: impl AsRef<Path>, b: impl AsRef<Path>, what: What) {
        assert_same(&self.path(a), &self.path(b), what);
    }

    /// Panics when there are staging files below a directory.
    #[track_caller]
    pub fn assert_clean(&self, path: impl AsRef<Path>) {
        assert_eq!(self.staging(path), Vec::<PathBuf>::new(), "staging files");
    }

    /// Runs lines of the shell, which must all succeed, and returns its output.
    #[track_caller]
    pub fn sh(&self, line: &str) -> String {
        let out = Command::new("sh").args(["-ec", line]).current_dir(&self.work).env("LC_ALL", "C").output().expect("sh starts");
        assert!(out.status.success(), "{line}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// What rsync would still do to make the destination equal: nothing, if all is well.
    #[track_caller]
    pub fn rsync_finds(&self, source: &str, destination: &str) -> String {
        self.sh(&format!("rsync -anciHAX --delete {source} {destination}"))
    }

    /// The program under test in the working directory with these words: see [`Scratch::program`].
    pub fn haul(&self, words: &str) -> Program {
        self.program(Command::new(haul()), words)
    }

    /// A program in the working directory with these words, split at blanks; `~` is the working directory.
    pub fn program(&self, mut command: Command, words: &str) -> Program {
        command.env_clear().current_dir(&self.work).stdin(Stdio::null());
        command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("LC_ALL", "C.UTF-8").env("TZ", "UTC");
        command.env("HOME", &self.home).env("HAUL_STATE_DIR", &self.state);
        let work = self.work.display().to_string();
        command.args(words.split_whitespace().map(|word| word.replace('~', &work)));
        Program::new(command)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            eprintln!("kept: {}", self.directory.path().display());
        }
    }
}

/// The names in a directory, sorted; none when it is absent.
pub fn entries(directory: &Path) -> Vec<String> {
    let found = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = found.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Staging files below a directory, which may be absent.
pub fn staging(directory: &Path) -> Vec<PathBuf> {
    let is_staging = |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".haul-"));
    below(directory).into_iter().filter(|(_, is_dir)| !is_dir).map(|(path, _)| path).filter(is_staging).collect()
}

/// What is below a directory, and which of it are directories; names may go while it looks.
fn below(directory: &Path) -> Vec<(PathBuf, bool)> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            open.extend(is_dir.then(|| entry.path()));
            found.push((entry.path(), is_dir));
        }
    }
    found
}
