import fc from 'fast-check';
import { onIllegalFlags } from '../../../../supervision/cell/checked.ts';
import { churnProgram, playChurn } from './churn.ts';
import { entityProgram, playEntities } from './entities.ts';
import { mailboxProgram, playMailbox } from './mailboxes.ts';
import { playSupervisors, supervisorProgram } from './supervisors.ts';
import { playTree, treeProgram } from './tree-play.ts';

// Uncaught: it ends the run, whichever program it was.
onIllegalFlags((problem) => {
  process.nextTick(() => {
    throw new Error(problem);
  });
});

/** A model: what its programs must do, and how many of them a run of all tests affords. */
export interface Model {
  readonly title: string;
  readonly runs: number;
  readonly property: fc.IAsyncProperty<unknown>;
}

/** The models by name. */
export const models: Readonly<Record<string, Model>> = {
  mailboxes: {
    title: 'random messages to a bounded mailbox are handled, dropped or refused as the model says',
    runs: 1000,
    property: fc.asyncProperty(mailboxProgram, playMailbox),
  },
  supervisors: {
    title: 'random ends of supervised children start again what the model says, in its order',
    runs: 800,
    property: fc.asyncProperty(supervisorProgram, playSupervisors),
  },
  trees: {
    title: 'random trees, messages, crashes, decisions, watches and stops do what the model says, step by step',
    runs: 600,
    property: fc.asyncProperty(treeProgram, playTree),
  },
  entities: {
    title: 'random messages, sleeps, crashes and releases of entities do what the model says',
    runs: 400,
    property: fc.asyncProperty(entityProgram, playEntities),
  },
  churn: {
    title: 'whatever happens at once, messages and asks are accounted for, in order, one at a time, and nothing stays',
    runs: 200,
    property: fc.asyncProperty(churnProgram, playChurn),
  },
};
