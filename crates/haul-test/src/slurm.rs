//! A real Slurm on loopback: munged, slurmctld and one slurmd, all with files of their own in a temporary directory. Needs root.

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::port::free_port;

/// A cluster of one node, stopped when this is dropped, with the jobs that run then.
#[derive(Debug)]
pub struct Slurm {
    place: tempfile::TempDir,
    daemons: Vec<Child>,
}

/// Starting takes a second.
const START: Duration = Duration::from_secs(60);

impl Slurm {
    /// A node that takes so many tasks at once, whatever this machine has.
    pub fn start(slots: u32) -> io::Result<Slurm> {
        let place = tempfile::Builder::new().prefix("haul-slurm-").tempdir()?;
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755))?;
        let show = |name: &str| place.path().join(name).display().to_string();
        for name in ["state", "spool"] {
            fs::create_dir(show(name))?;
        }
        let mut key = vec![0; 1024];
        fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        fs::write(show("munge.key"), key)?;
        fs::set_permissions(show("munge.key"), fs::Permissions::from_mode(0o400))?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (controller, node) = (free_port()?, free_port()?);
        // PMIx has one directory in /tmp for a number of a job, whatever its cluster: no two that run have the same numbers.
        // A requeued job waits until no credential of its first run is valid: 120 s unless told otherwise.
        let config = format!(
            "ClusterName=test\nFirstJobId={controller}\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={controller}\nAuthType=auth/munge\n\
             AuthInfo=socket={socket},cred_expire=5\nCredType=cred/munge\nSlurmUser=root\nSlurmdUser=root\nStateSaveLocation={state}\n\
             SlurmdSpoolDir={spool}/%n\nSlurmctldPidFile={spool}/ctld.pid\nSlurmdPidFile={spool}/%n.pid\nSlurmctldLogFile={log}\n\
             SlurmdLogFile={log}.%n\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nMpiDefault=none\n\
             SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nSchedulerType=sched/backfill\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1\nReturnToService=2\nKillWait=5\nJobRequeue=1\n\
             JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\nSlurmdParameters=config_overrides\n\
             NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node} CPUs={slots} RealMemory=1000\n\
             PartitionName=main Nodes=n1 Default=YES MaxTime=INFINITE State=UP\n\
             PartitionName=short Nodes=n1 MaxTime=5 MaxNodes=1 State=UP\n",
            socket = show("munge.sock"),
            state = show("state"),
            spool = show("spool"),
            log = show("log"),
        );
        fs::write(show("slurm.conf"), config)?;
        let mut slurm = Slurm { place, daemons: Vec::new() };
        let (socket, key) = (format!("--socket={}", slurm.show("munge.sock")), format!("--key-file={}", slurm.show("munge.key")));
        let files = ["pid-file", "log-file", "seed-file"].map(|name| format!("--{name}={}", slurm.show(&format!("munge.{name}"))));
        let munge = ["--foreground".into(), "--force".into(), socket, key].into_iter().chain(files);
        slurm.run("munged", munge)?;
        let socket = slurm.place.path().join("munge.sock");
        slurm.until("munged listens", || socket.exists())?;
        slurm.run("slurmctld", ["-D".into()])?;
        slurm.run("slurmd", ["-D".into(), "-N".into(), "n1".into()])?;
        slurm.until("the node is idle", || slurm.ask("sinfo", &["-h", "-o", "%T"]).is_ok_and(|state| state.trim() == "idle"))?;
        Ok(slurm)
    }

    fn show(&self, name: &str) -> String {
        self.place.path().join(name).display().to_string()
    }

    /// For `SLURM_CONF`.
    pub fn config(&self) -> PathBuf {
        self.place.path().join("slurm.conf")
    }

    fn run(&mut self, program: &str, words: impl IntoIterator<Item = String>) -> io::Result<()> {
        let errors = fs::File::create(self.place.path().join(format!("{program}.err")))?;
        let mut daemon = Command::new(Path::new("/usr/sbin").join(program));
        daemon.args(words).env("SLURM_CONF", self.config()).stdin(Stdio::null()).stdout(errors.try_clone()?).stderr(errors);
        self.daemons.push(daemon.spawn().map_err(|e| io::Error::new(e.kind(), format!("{program}: {e}")))?);
        Ok(())
    }

    fn until(&self, what: &str, is_so: impl Fn() -> bool) -> io::Result<()> {
        let until = Instant::now() + START;
        while !is_so() {
            if Instant::now() > until {
                let said = ["munged.err", "slurmctld.err", "slurmd.err", "log", "log.n1"];
                let said = said.map(|name| fs::read_to_string(self.show(name)).unwrap_or_default());
                return Err(io::Error::other(format!("not so: {what}\n{}", said.join("\n"))));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// What a command of Slurm prints.
    pub fn ask(&self, program: &str, words: &[&str]) -> io::Result<String> {
        let out = Command::new(program).args(words).env("SLURM_CONF", self.config()).stdin(Stdio::null()).output()?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if out.status.success() { Ok(text(&out.stdout)) } else { Err(io::Error::other(format!("{program}: {}", text(&out.stderr)))) }
    }

    /// One field of a job, as `scontrol show job` has it: `JobState`, `ExitCode`, `Restarts`.
    #[track_caller]
    pub fn job(&self, job: &str, field: &str) -> String {
        let text = self.ask("scontrol", &["show", "job", job]).expect("the job is known");
        let value = text.split_whitespace().find_map(|word| word.strip_prefix(field)?.strip_prefix('='));
        value.unwrap_or_else(|| panic!("no {field}: {text}")).to_string()
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        let _ = self.ask("scancel", &["--user=root", "--full", "--signal=KILL"]); // there may be no job
        let _ = self.ask("scancel", &["--user=root"]);
        let until = Instant::now() + Duration::from_secs(10);
        while Instant::now() < until && self.ask("squeue", &["-h"]).is_ok_and(|jobs| !jobs.trim().is_empty()) {
            std::thread::sleep(Duration::from_millis(50));
        }
        for daemon in self.daemons.iter_mut().rev() {
            // It has not been waited for, so that its number is still its own.
            let _ = rustix::process::kill_process(rustix::process::Pid::from_child(daemon), rustix::process::Signal::TERM);
            let ends = Instant::now() + Duration::from_secs(5);
            while Instant::now() < ends && matches!(daemon.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let _ = daemon.kill(); // it may have ended
            let _ = daemon.wait();
        }
    }
}
