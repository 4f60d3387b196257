import fc from 'fast-check';
import { churnProgram, playChurn } from './churn.ts';
import { entityProgram, playEntities } from './entities.ts';
import { liveProgram, playLiveness } from './liveness.ts';
import { mailboxProgram, playMailbox } from './mailboxes.ts';
import { realStage, SeededStage, type Stage } from './stage.ts';
import { playSupervisors, supervisorProgram } from './supervisors.ts';
import { playTree, treeProgram } from './tree-play.ts';

/** A model: what its programs must do, and how many of them a run of all tests affords (`npm run soak -- model` runs more). */
export interface Model {
  readonly title: string;
  readonly runs: number;
  /** Programs on the run queue and the time of this process, for those that can do without virtual time. */
  readonly real?: fc.IAsyncProperty<unknown>;
  /** Programs whose order of actors comes from a seed, on virtual time: a failure is the same in each run. */
  readonly seeded: fc.IAsyncProperty<unknown>;
}

function model<Program>(
  title: string,
  runs: number,
  program: fc.Arbitrary<Program>,
  play: (program: Program, stage: Stage) => Promise<void>,
): Model {
  return {
    title,
    runs,
    real: fc.asyncProperty(program, (each) => play(each, realStage)),
    seeded: fc.asyncProperty(program, fc.nat(), (each, seed) => play(each, new SeededStage(seed))),
  };
}

/** The models by name. */
export const models: Readonly<Record<string, Model>> = {
  mailboxes: model(
    'random messages to a bounded mailbox are handled, dropped or refused as the model says',
    400,
    mailboxProgram,
    playMailbox,
  ),
  supervisors: model(
    'random ends of supervised children start again what the model says, in its order',
    320,
    supervisorProgram,
    playSupervisors,
  ),
  trees: model(
    'random trees, messages, crashes, decisions, watches and stops do what the model says, step by step',
    240,
    treeProgram,
    playTree,
  ),
  entities: model(
    'random messages, sleeps, crashes and releases of entities do what the model says',
    160,
    entityProgram,
    playEntities,
  ),
  churn: model(
    'whatever happens at once, messages and asks are accounted for, in order, one at a time, and nothing stays',
    100,
    churnProgram,
    playChurn,
  ),
  liveness: {
    title: 'whatever happens over time, whoever lives answers in the end, and all of it ends',
    runs: 200,
    seeded: fc.asyncProperty(liveProgram, fc.nat(), playLiveness),
  },
};
