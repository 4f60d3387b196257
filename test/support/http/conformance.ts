import { describe } from 'node:test';
import type { Adapter } from './client.ts';
import { bodies } from './conformance/bodies.ts';
import { closing } from './conformance/closing.ts';
import { frames } from './conformance/frames.ts';
import { pushes } from './conformance/pushes.ts';
import { replies } from './conformance/replies.ts';
import { requests } from './conformance/requests.ts';
import { sockets } from './conformance/sockets.ts';
import { streams } from './conformance/streams.ts';
import { strictness } from './conformance/strictness.ts';
import { upgrades } from './conformance/upgrades.ts';

/** Everything proto/ports/http.ts promises, on one adapter. `skip`: why it cannot run here. */
export function conformance(adapter: Adapter, skip: string | false): void {
  describe(`HTTP server on ${adapter}`, { skip, concurrency: 4 }, () => {
    describe('requests', { concurrency: 4 }, () => requests(adapter));
    describe('strictness', () => strictness(adapter));
    describe('bodies', { concurrency: 4 }, () => bodies(adapter));
    describe('bodies as they come', { concurrency: 4 }, () => streams(adapter));
    describe('replies', { concurrency: 4 }, () => replies(adapter));
    describe('pushed replies', { concurrency: 4 }, () => pushes(adapter));
    describe('upgrades', { concurrency: 4 }, () => upgrades(adapter));
    describe('sockets', { concurrency: 4 }, () => sockets(adapter));
    describe('frames', { concurrency: 4 }, () => frames(adapter));
    describe('closing', { concurrency: 4 }, () => closing(adapter));
  });
}
