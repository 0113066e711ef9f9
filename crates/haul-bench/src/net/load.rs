//! What the processors of this machine do: haul's own share, that of the ssh that carries its data, and all together.

use std::fs;
use std::time::Duration;

use haul_ssh::agent::Load;

/// Generations of processes examined above and below this one: there may be a shell or two between.
const GENERATIONS: usize = 4;

pub(super) fn now() -> Load {
    use rustix::time::{ClockId, clock_gettime};
    let clock = |id| {
        let now = clock_gettime(id);
        Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
    };
    let (busy, all) = machine(&fs::read_to_string("/proc/stat").unwrap_or_default());
    Load {
        at: clock(ClockId::Monotonic),
        own: clock(ClockId::ProcessCPUTime),
        ssh: ssh(),
        busy,
        all,
        processors: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
    }
}

/// The CPU time used since an earlier reading. Processes that ended in between are not counted.
pub(super) fn since(now: &Load, before: &Load) -> Load {
    Load {
        at: now.at.saturating_sub(before.at),
        own: now.own.saturating_sub(before.own),
        ssh: now.ssh.saturating_sub(before.ssh),
        busy: now.busy.saturating_sub(before.busy),
        all: now.all.saturating_sub(before.all),
        processors: now.processors,
    }
}

/// Of a difference: the share of all processors that were busy, 0 to 1; `None` if the system does not say.
pub(super) fn share(load: &Load) -> Option<f64> {
    (!load.all.is_zero()).then(|| (load.busy.as_secs_f64() / load.all.as_secs_f64()).min(1.0))
}

/// Of a difference: how many processors the one ssh program kept busy.
pub(super) fn ssh_processors(load: &Load) -> f64 {
    load.ssh.as_secs_f64() / load.at.as_secs_f64().max(1e-9)
}

/// A tick of `/proc`: 100 a second on every Linux that haul is built for.
const TICK: Duration = Duration::from_millis(10);

fn ticks(count: u64) -> Duration {
    Duration::from_nanos(count.saturating_mul(TICK.as_nanos() as u64))
}

/// The line `cpu` of `/proc/stat`, proc(5): user, nice, system, idle, iowait, irq, softirq, steal; guests are within user.
fn machine(stat: &str) -> (Duration, Duration) {
    let numbers = stat.lines().next().and_then(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let numbers: Vec<u64> = numbers.split_whitespace().take(8).filter_map(|n| n.parse().ok()).collect();
    let all: u64 = numbers.iter().sum();
    let idle: u64 = numbers.iter().skip(3).take(2).sum();
    (ticks(all - idle), ticks(all))
}

/// A line of `/proc/PID/stat`: name, parent, processor time.
struct Process {
    name: String,
    parent: u32,
    used: Duration,
}

fn process(stat: &str) -> Option<Process> {
    let (before, behind) = stat.rsplit_once(") ")?;
    let name = before.split_once('(')?.1.to_string();
    let words: Vec<&str> = behind.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    // proc(5): the state is the third field, the parent the fourth, user and system time the 14th and 15th.
    let used = ticks(number(11)?.saturating_add(number(12)?));
    Some(Process { name, parent: u32::try_from(number(1)?).ok()?, used })
}

fn read(pid: u32) -> Option<Process> {
    process(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// ssh below this process and sshd above it.
fn ssh() -> Duration {
    let mut used = Duration::ZERO;
    let mut above = std::os::unix::process::parent_id();
    for _ in 0..GENERATIONS {
        let Some(parent) = read(above) else { break };
        if parent.name.starts_with("sshd") {
            used += parent.used;
        }
        above = parent.parent;
    }
    let mut ours = vec![std::process::id()];
    for _ in 0..GENERATIONS {
        ours = ours.iter().flat_map(|pid| children(*pid)).collect();
        used += ours.iter().filter_map(|pid| read(*pid)).filter(|child| child.name == "ssh").map(|child| child.used).sum::<Duration>();
    }
    used
}

/// By the list that the kernel keeps for each thread, where it does.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let listed = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    listed.flat_map(|list| list.split_whitespace().filter_map(|pid| pid.parse().ok()).collect::<Vec<u32>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_procfs_says_is_read() {
        let stat = "cpu  100 0 50 800 50 0 0 0 7 0\ncpu0 1 2 3 4\n";
        assert_eq!(machine(stat), (Duration::from_millis(1500), Duration::from_secs(10)));
        assert_eq!(machine("nonsense"), (Duration::ZERO, Duration::ZERO));
        let line = "77 (a) b (c) S 12 77 77 0 -1 4194560 1 0 0 0 30 12 0 0 20 0 1 0 100 1 1";
        let found = process(line).expect("a process");
        assert_eq!((found.name.as_str(), found.parent, found.used), ("a) b (c", 12, Duration::from_millis(420)));
        assert!(process("77 (a").is_none());
    }
}
