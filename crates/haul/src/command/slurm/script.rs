//! The text of a job script. Pure.
//!
//! Lines for the batch system hold only words that the flags have checked. Everything else is quoted for the shell and comes
//! behind the first command, where neither sbatch nor qsub reads options any more: a name with a newline and `#SBATCH` in it is a
//! name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::estimate::{Limit, pbs_time, slurm_time};
use crate::flags::slurm::{Batch, JobOperation, Resources};
use haul_run::allocation;

/// All that a script has.
pub struct Script<'a> {
    pub batch: &'a Batch,
    pub resources: &'a Resources,
    pub limit: &'a Limit,
    pub operation: JobOperation,
    pub words: &'a [OsString],
    /// The directory in which relative names are meant.
    pub directory: &'a Path,
    pub program: &'a Path,
    /// Of the sources, for the job's name.
    pub label: &'a [u8],
}

impl Script<'_> {
    pub fn text(&self) -> Vec<u8> {
        let mut text = Text(b"#!/bin/bash\n".to_vec());
        for line in if self.batch.pbs { self.pbs() } else { self.slurm() } {
            text.line(&[line.as_bytes()]);
        }
        // Behind the first command no option is read.
        text.line(&[b"set -e"]);
        text.line(&[format!("# Time limit: {}.", self.limit.because).as_bytes()]);
        text.line(&[b"cd -- ", &quoted(self.directory.as_os_str().as_bytes())]);
        if !self.batch.modules.is_empty() {
            text.line(&[format!("module load {}", self.batch.modules.join(" ")).as_bytes()]);
        }
        let mut run = format!("exec {}", self.launcher()).into_bytes();
        let deadline = (self.batch.pbs && self.operation.has_deadline())
            .then(|| format!("--deadline={}s", allocation::stop_after(self.limit.time).as_secs()));
        let own = [OsString::from(self.operation.word())].into_iter().chain(deadline.map(OsString::from));
        run.extend(quoted(self.program.as_os_str().as_bytes()));
        for word in own.chain(self.words.iter().cloned()) {
            run.push(b' ');
            run.extend(quoted(word.as_bytes()));
        }
        text.line(&[&run]);
        text.0
    }

    fn launcher(&self) -> String {
        match (self.resources.tasks, self.batch.pbs) {
            (1, _) => String::new(),
            (_, true) => "mpirun ".into(),
            (_, false) => {
                let mpi = self.batch.mpi.as_ref().map(|mpi| format!("--mpi={mpi} ")).unwrap_or_default();
                // A rank that is killed ends the job. Since Slurm 22.05 a step does not inherit the CPUs of its job.
                format!("srun --kill-on-bad-exit=1 --cpus-per-task={} {mpi}", self.resources.cpus)
            }
        }
    }

    fn name(&self) -> String {
        self.batch.name.clone().unwrap_or_else(|| {
            let plain = |b: &u8| if b.is_ascii_alphanumeric() || b"._-".contains(b) { char::from(*b) } else { '_' };
            let label: String = self.label.iter().take(40).map(plain).collect();
            if label.is_empty() { "haul".into() } else { format!("haul-{label}") }
        })
    }

    fn slurm(&self) -> Vec<String> {
        let (batch, resources) = (self.batch, self.resources);
        let option = |name: &str, value: &Option<String>| value.as_ref().map(|value| format!("--{name}={value}"));
        let log = batch.log.clone().or(Some("haul-%j.log".into()));
        let lines = [
            Some(format!("--job-name={}", self.name())),
            option("partition", &batch.partition),
            option("account", &batch.account),
            Some(format!("--nodes={}", resources.nodes)),
            Some(format!("--ntasks={}", resources.tasks)),
            Some(format!("--cpus-per-task={}", resources.cpus)),
            Some(format!("--time={}", slurm_time(self.limit.time))),
            option("output", &log),
            Some("--open-mode=append".into()),
            Some(if batch.requeue { "--requeue".into() } else { "--no-requeue".into() }),
        ];
        lines.into_iter().flatten().chain(batch.options.iter().cloned()).map(|line| format!("#SBATCH {line}")).collect()
    }

    fn pbs(&self) -> Vec<String> {
        let (batch, resources) = (self.batch, self.resources);
        let per_node = resources.tasks.div_ceil(resources.nodes);
        let cpus = per_node.saturating_mul(resources.cpus);
        let option = |letter: char, value: &Option<String>| value.as_ref().map(|value| format!("-{letter} {value}"));
        let lines = [
            Some(format!("-N {}", self.name())),
            option('q', &batch.partition),
            option('A', &batch.account),
            Some(format!("-l select={}:ncpus={cpus}:mpiprocs={per_node}", resources.nodes)),
            Some(format!("-l walltime={}", pbs_time(self.limit.time))),
            Some("-j oe".into()),
            option('o', &batch.log),
            Some(format!("-r {}", if batch.requeue { 'y' } else { 'n' })),
        ];
        lines.into_iter().flatten().chain(batch.options.iter().cloned()).map(|line| format!("#PBS {line}")).collect()
    }
}

struct Text(Vec<u8>);

impl Text {
    fn line(&mut self, parts: &[&[u8]]) {
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
        self.0.push(b'\n');
    }
}

/// One word of a shell, whatever its bytes are.
pub fn quoted(word: &[u8]) -> Vec<u8> {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"_.,:=+@%/-".contains(b);
    if !word.is_empty() && word.iter().all(plain) {
        return word.to_vec();
    }
    let mut out = vec![b'\''];
    for byte in word {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            other => out.push(*other),
        }
    }
    out.push(b'\'');
    out
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn script(batch: &Batch, resources: &Resources, words: &[&str]) -> String {
        script_of(JobOperation::Cp, batch, resources, words)
    }

    fn script_of(operation: JobOperation, batch: &Batch, resources: &Resources, words: &[&str]) -> String {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        let limit = Limit { time: Duration::from_secs(5400), because: "as given".into() };
        let (directory, program) = (Path::new("/home/me/a dir"), Path::new("/opt/haul"));
        let script = Script { batch, resources, limit: &limit, operation, words: &words, directory, program, label: b"run 7" };
        String::from_utf8(script.text()).unwrap()
    }

    #[test]
    fn one_task_runs_haul() {
        let batch = Batch { partition: Some("transfer".into()), modules: vec!["haul/1".into()], requeue: true, ..Batch::default() };
        let resources = Resources { nodes: 1, tasks: 1, cpus: 8, time: None };
        insta::assert_snapshot!(script(&batch, &resources, &["-a", "--requeue", "--", "it's", "/archive/"]), @r"
        #!/bin/bash
        #SBATCH --job-name=haul-run_7
        #SBATCH --partition=transfer
        #SBATCH --nodes=1
        #SBATCH --ntasks=1
        #SBATCH --cpus-per-task=8
        #SBATCH --time=01:30:00
        #SBATCH --output=haul-%j.log
        #SBATCH --open-mode=append
        #SBATCH --requeue
        set -e
        # Time limit: as given.
        cd -- '/home/me/a dir'
        module load haul/1
        exec /opt/haul cp -a --requeue -- 'it'\''s' /archive/
        ");
    }

    #[test]
    fn several_tasks_run_under_srun_and_mpirun() {
        let resources = Resources { nodes: 2, tasks: 8, cpus: 4, time: None };
        let batch = Batch { mpi: Some("pmix".into()), options: vec!["--exclusive".into()], ..Batch::default() };
        let text = script(&batch, &resources, &["--", "a", "b"]);
        assert!(text.ends_with("\nexec srun --kill-on-bad-exit=1 --cpus-per-task=4 --mpi=pmix /opt/haul cp -- a b\n"), "{text}");
        assert!(text.contains("#SBATCH --no-requeue\n#SBATCH --exclusive\n"), "{text}");
        let batch = Batch { pbs: true, partition: Some("q".into()), ..Batch::default() };
        insta::assert_snapshot!(script(&batch, &resources, &["--", "a", "b"]), @r"
        #!/bin/bash
        #PBS -N haul-run_7
        #PBS -q q
        #PBS -l select=2:ncpus=16:mpiprocs=4
        #PBS -l walltime=01:30:00
        #PBS -j oe
        #PBS -r n
        set -e
        # Time limit: as given.
        cd -- '/home/me/a dir'
        exec mpirun /opt/haul cp --deadline=5340s -- a b
        ");
        let batch = Batch { requeue: true, ..batch };
        assert!(script(&batch, &resources, &["--", "a", "b"]).contains("\n#PBS -r y\nset -e\n"));
        let text = script_of(JobOperation::Rm, &batch, &resources, &["-r", "--", "a"]);
        assert!(text.ends_with("\nexec mpirun /opt/haul rm -r -- a\n"), "no deadline: {text}");
    }

    /// What bash makes of a quoted word.
    fn read_by_bash(word: &[u8]) -> Vec<u8> {
        let script = [b"printf %s ", &quoted(word)[..]].concat();
        let mut bash = std::process::Command::new("bash");
        bash.arg("-c").arg(std::ffi::OsStr::from_bytes(&script)).env("LC_ALL", "C.UTF-8");
        bash.output().unwrap().stdout
    }

    #[test]
    fn no_name_becomes_shell() {
        let hostile: [&[u8]; 8] =
            [b"", b"$(touch /tmp/x)", b"`id`;'\"\\", b"a\n#SBATCH --wrap=id\nb", b"~", b"-rf *", b"\xff\xfe\x01!", b"'''"];
        for word in hostile {
            assert_eq!(read_by_bash(word), word, "{:?}", String::from_utf8_lossy(word));
        }
    }

    #[test]
    fn lines_of_the_batch_system_end_before_any_name() {
        let resources = Resources { nodes: 1, tasks: 1, cpus: 8, time: None };
        let text = script(&Batch::default(), &resources, &["--", "a\n#SBATCH --wrap=id", "b"]);
        let (head, tail) = text.split_once("\nset -e\n").unwrap();
        assert!(!head.contains("wrap") && tail.contains("'a\n#SBATCH --wrap=id'"), "{text}");
    }
}
