/** Troupe's own server on public streams, as where the version of Node is not known. */
import { useWires } from '../../transports/gateway/tcp/wires.ts';
import { failOnLeaks } from '../kit/leaks.ts';
import { conformance } from './conformance.ts';

failOnLeaks();
useWires('stream');
conformance('own', false);
