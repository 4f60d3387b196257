import { skipWithoutKubernetes } from '../kit/kubernetes/programs.ts';
import { engineConformance } from './conformance.ts';
import { kubernetesUnderTest } from './kubernetes-under-test.ts';
import { tinyImageMissing } from './tiny-image.ts';

engineConformance('kubernetes, the second half', kubernetesUnderTest, {
  skip: tinyImageMissing() ?? skipWithoutKubernetes(),
  half: 'second',
  parts: { forgetsStopped: true },
});
