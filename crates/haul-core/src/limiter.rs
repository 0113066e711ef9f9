//! What limits runs, by name.

/// What limited a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Limiter {
    /// Nothing was done that could be judged, or too little.
    #[default]
    TooShort,
    DryRun,
    SourceReads,
    SourceMetadata,
    Hashing,
    Network,
    /// The other machine does not say how much of it was its own work.
    NetworkOrSource,
    NetworkOrDestination,
    /// Each object costs a request, and is so small that its bytes take no time beside that.
    Requests,
    DestinationWrites,
    DestinationMetadata,
    /// One system holds both ends and reads and writes in one call.
    Copying,
    /// Reading the destination back.
    Verifying,
    /// Of this machine.
    Processors,
    /// Of the machine at the other end.
    RemoteProcessors,
    /// The rate that was asked for.
    Limit,
    /// The number of workers that was asked for.
    Workers,
    /// One file that one worker moves from beginning to end.
    OneFile,
    /// The last file of many.
    Straggler,
    /// Fewer files than workers.
    FewFiles,
    /// One of several ranks had much more to do than the others.
    Imbalance,
    /// The ranks of one node take longer than those of others.
    SlowNode,
    /// More workers of all ranks together gain nothing.
    Saturated,
}

impl Limiter {
    pub const ALL: [Limiter; 23] = [
        Limiter::TooShort,
        Limiter::DryRun,
        Limiter::SourceReads,
        Limiter::SourceMetadata,
        Limiter::Hashing,
        Limiter::Network,
        Limiter::NetworkOrSource,
        Limiter::NetworkOrDestination,
        Limiter::Requests,
        Limiter::DestinationWrites,
        Limiter::DestinationMetadata,
        Limiter::Copying,
        Limiter::Verifying,
        Limiter::Processors,
        Limiter::RemoteProcessors,
        Limiter::Limit,
        Limiter::Workers,
        Limiter::OneFile,
        Limiter::Straggler,
        Limiter::FewFiles,
        Limiter::Imbalance,
        Limiter::SlowNode,
        Limiter::Saturated,
    ];

    /// As JSON has it; stable.
    pub fn word(self) -> &'static str {
        match self {
            Limiter::TooShort => "too-short",
            Limiter::DryRun => "dry-run",
            Limiter::SourceReads => "source-reads",
            Limiter::SourceMetadata => "source-metadata",
            Limiter::Hashing => "hashing",
            Limiter::Network => "network",
            Limiter::NetworkOrSource => "network-or-source",
            Limiter::NetworkOrDestination => "network-or-destination",
            Limiter::Requests => "requests",
            Limiter::DestinationWrites => "destination-writes",
            Limiter::DestinationMetadata => "destination-metadata",
            Limiter::Copying => "copying",
            Limiter::Verifying => "verifying",
            Limiter::Processors => "processors",
            Limiter::RemoteProcessors => "remote-processors",
            Limiter::Limit => "bwlimit",
            Limiter::Workers => "workers",
            Limiter::OneFile => "one-file",
            Limiter::Straggler => "straggler",
            Limiter::FewFiles => "few-files",
            Limiter::Imbalance => "imbalance",
            Limiter::SlowNode => "slow-node",
            Limiter::Saturated => "saturated",
        }
    }
}
